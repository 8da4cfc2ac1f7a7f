"""`python -m narrows` is `narrows`."""

from narrows.cli import main

if __name__ == "__main__":
    main()
