"""Chats as files that others can read: one documented, versioned format."""

from app.exchange.export import dumps, export_chat, export_chats
from app.exchange.format import Export
from app.exchange.import_ import Imported, ImportRefusedError, import_chats

__all__ = [
    "Export",
    "ImportRefusedError",
    "Imported",
    "dumps",
    "export_chat",
    "export_chats",
    "import_chats",
]
