"""The command line: one file a command, loaded only when it is called."""
