"""`python -m cpgt`: the same as the command `cpgt`."""

from cpgt.commands.main import main

main()
