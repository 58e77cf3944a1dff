"""Shadow mode: a turn presented another way and compared with what was sent. Nothing is sent from here."""
