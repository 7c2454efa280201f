"""llama.cpp as a library: imported once, silenced, with the C function that lets a decode be aborted for free.

Every other module of this package takes `llama_cpp` from here, so that its logger is replaced before anything speaks.
"""

import ctypes
import os
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

# A failed assertion would otherwise start a debugger to print a backtrace.
os.environ.setdefault("GGML_NO_BACKTRACE", "1")

import llama_cpp

# enum ggml_log_level in ggml.h; the bindings' own logger still has the numbers of an older one.
_WARNING = 3
_ERROR = 4
_CONTINUATION = 5

_errors: deque[str] = deque(maxlen=20)
_sink: Callable[[str], None] | None = None
_last_level = 0


@llama_cpp.llama_log_callback
def _log(level: int, text: bytes, _data: object) -> None:
    global _last_level
    level = _last_level if level == _CONTINUATION else level
    _last_level = level
    if level < _WARNING or level > _ERROR:
        return
    line = text.decode("utf-8", "replace")
    if level == _ERROR and line.strip():
        _errors.append(line.strip())
    if _sink is not None:
        _sink(line)


llama_cpp.llama_log_set(_log, ctypes.c_void_p(0))
llama_cpp.llama_backend_init()


def send_log_to(sink: Callable[[str], None] | None) -> None:
    """Pass llama.cpp's warnings and errors to `sink`, piece by piece, line ends included."""
    global _sink
    _sink = sink


def forget_errors() -> None:
    """Drop the remembered error lines; call before an operation whose failure is to be explained."""
    _errors.clear()


def errors() -> list[str]:
    """Return llama.cpp's last error lines, oldest first."""
    return list(_errors)


class AbortFlag:
    """A flag that llama.cpp reads between the nodes of a graph, without Python and without the GIL.

    The callback is the C library's `strlen` on a two-byte buffer: 0 for "" (go on), 1 for "\\x01" (stop).
    """

    def __init__(self) -> None:
        self._buffer = ctypes.create_string_buffer(2)
        self.callback = _strlen_callback() or ctypes.cast(_python_callback(self._buffer), _Abort)
        self.data = ctypes.cast(self._buffer, ctypes.c_void_p)

    def raise_(self) -> None:
        """Ask for the abort; safe from any thread and from a signal handler."""
        self._buffer[0] = b"\x01"

    def clear(self) -> None:
        """Take the wish back."""
        self._buffer[0] = b"\x00"


_Abort = llama_cpp.ggml_abort_callback
_kept: list[object] = []


def _strlen_callback() -> Any:
    if sys.platform not in ("linux", "darwin"):
        return None
    return ctypes.cast(ctypes.CDLL(None).strlen, _Abort)


def _python_callback(buffer: ctypes.Array[ctypes.c_char]) -> Any:
    """Return the slow fallback, which takes the GIL at every graph node; kept alive for the process."""
    callback = _Abort(lambda _data: buffer[0] != b"\x00")
    _kept.append(callback)
    return callback


def physical_cores() -> int:
    """Return the number of physical cores this process may use; logical ones where the system does not tell."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    return max(1, min(usable, _cores_of_system() or usable))


def _cores_of_system() -> int | None:
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as file:
            cores = set()
            package = ""
            for line in file:
                if line.startswith("physical id"):
                    package = line.split(":")[1].strip()
                elif line.startswith("core id"):
                    cores.add((package, line.split(":")[1].strip()))
            return len(cores) or None
    except OSError:
        return None


def processor() -> str:
    """Return what llama.cpp says of the processor's instructions, by which it picks its kernels."""
    return llama_cpp.llama_print_system_info().decode("utf-8", "replace").strip(" |")


def version() -> str:
    """Return the version of the bindings and of the llama.cpp inside."""
    return f"llama-cpp-python {llama_cpp.__version__}"
