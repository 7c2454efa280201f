"""Chats on disk: a tree of messages for each, in one SQLite file."""

from app.store.store import Store
from app.store.values import Attachment, Chat, ChatSummary, Hit, NewChat, Reply, StoredMessage, StoreError

__all__ = [
    "Attachment",
    "Chat",
    "ChatSummary",
    "Hit",
    "NewChat",
    "Reply",
    "Store",
    "StoreError",
    "StoredMessage",
]
