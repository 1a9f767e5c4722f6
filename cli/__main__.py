"""`python -m foretell.cli`, so that `torchrun -m foretell.cli` can start the command."""

from foretell.cli.main import main

if __name__ == "__main__":
    main()
