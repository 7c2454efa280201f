"""Chats on disk: a tree of messages for each, in one SQLite file."""

from app.store.store import Store
from app.store.values import Attachment, Chat, ChatSummary, Hit, Reply, StoredMessage, StoreError

__all__ = ["Attachment", "Chat", "ChatSummary", "Hit", "Reply", "Store", "StoreError", "StoredMessage"]
