"""The entry of `stampo` and of `python -m app`: Ctrl+C while Python still imports ends it without a traceback."""

import signal


def main() -> None:
    """Import the program and run it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from app.main import main as run

    signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
