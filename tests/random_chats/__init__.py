"""Random scenes of two chats with a gateway in virtual time, and a judge of what people read."""
