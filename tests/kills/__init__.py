"""The real commands `tailrace deliver` and `tailrace deliveries resume` are killed; a judge checks what people read."""
