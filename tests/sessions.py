"""Waiting for what a session does on its own."""

import asyncio
from collections.abc import Callable

from app.session import Session


async def until(true: Callable[[], object]) -> None:
    """Wait for something to become true."""
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.005)


async def ready(session: Session) -> Session:
    await until(lambda: session.engine.state == "ready")
    return session


async def done(session: Session) -> None:
    await until(lambda: not session.busy)
