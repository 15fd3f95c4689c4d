"""The subcommands of `cpgt`. Each imports what it needs when it runs, so that agents start fast."""
