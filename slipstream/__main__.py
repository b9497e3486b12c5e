"""`python -m slipstream`: how the stack starts its own processes, whatever PATH holds."""

from slipstream.cli import main

if __name__ == "__main__":
    main()
