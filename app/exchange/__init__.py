"""Chats as files that others can read: one documented, versioned format."""

from app.exchange.export import dumps, export_chat, export_chats
from app.exchange.format import Export
from app.exchange.import_ import Imported, ImportRefusedError, adopt, import_chats, read_chats

__all__ = [
    "Export",
    "ImportRefusedError",
    "Imported",
    "adopt",
    "dumps",
    "export_chat",
    "export_chats",
    "import_chats",
    "read_chats",
]
