"""Chats as files that others can read: one documented, versioned format."""

from app.exchange.export import dumps, export_chat
from app.exchange.format import Export

__all__ = ["Export", "dumps", "export_chat"]
