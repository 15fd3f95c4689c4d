"""The subcommands of `cpgt`. Each imports what it needs when it runs: an agent must start fast, stay small."""
