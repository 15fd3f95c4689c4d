"""The subcommands of `cpgt`. Each imports what it needs when it runs: agents must start fast, stay small."""
