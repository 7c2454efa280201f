"""Compiling shapes beside the screen: one thread with a deep stack, one shape after the other.

Knows nothing of shapes. llguidance follows rules by recursion, and a thread's usual stack may be smaller than the
main one's (2 MB where the limit is lifted, as with `ulimit -s unlimited`): there a shape within the limits on shapes
ended the process.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

STACK_BYTES = 64 * 2**20

T = TypeVar("T")

_threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="shapes")


async def deeply(function: Callable[..., T], *arguments: object) -> T:
    """Run a function in the thread and return what it returns."""
    usual = threading.stack_size(STACK_BYTES)  # of threads that are begun from here on
    try:
        future = _threads.submit(function, *arguments)
    finally:
        threading.stack_size(usual)
    return await asyncio.wrap_future(future)
