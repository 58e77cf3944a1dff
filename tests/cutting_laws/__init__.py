"""The laws that every cut of a Markdown text must keep, and the judges that check them."""
