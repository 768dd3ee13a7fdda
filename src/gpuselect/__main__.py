"""`python -m gpuselect`."""

from gpuselect.cli import main

if __name__ == "__main__":
    main()
