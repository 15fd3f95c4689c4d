"""How many bytes a message is at each layer of the wire."""

SHORT_FRAME = 255  # ZMTP 3: one flag byte, then the length in one byte up to here, in eight beyond


def zmtp_size(message_size: int) -> int:
    """The message as one ZMTP frame: header and body."""
    return message_size + (2 if message_size <= SHORT_FRAME else 9)
