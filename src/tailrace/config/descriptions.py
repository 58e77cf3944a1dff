"""What each key of the settings means, for editors (`tailrace schema config`); docs/settings.md has the same texts."""

DESCRIPTIONS: dict[str, dict[str, str]] = {
    "gateway": {
        "data_dir": "the folder of the ledger, ledger.db, and of the control socket",
        "max_queue_size": (
            "how many messages may wait in one conversation, besides the one that is being answered; each "
            "further one gets the answer that the queue is full"
        ),
        "processing_update_interval_ms": "the time between two updates of a processing message, in milliseconds",
        "session_timeout_s": "after a pause of this many seconds a conversation starts a new session",
        "drain_s": "how many seconds the process may take to finish what it sends when it is stopped",
        "extensions": "the folder of the extensions, in which each has a folder of its own",
        "health": (
            'the address of /healthz, /readyz and /metrics; "" is none. tailrace run opens it only if it is set'
        ),
        "control": (
            'the Unix socket through which other commands reach the running gateway; "" is control.sock in data_dir'
        ),
    },
    "agents": {
        "use": (
            "the agent, as on a command line: module:object, acp:COMMAND, agui+URL, vercel+URL, or a name such "
            "as claude"
        ),
        "permissions": (
            "what happens when the agent asks for a permission: ask puts the question into the chat, allow and "
            "deny answer it"
        ),
        "middleware": (
            "an async function that gets the prompt and the name of the agent, and returns the prompt to use"
        ),
        "presentation": "how answers of this agent appear; it overrides the one of the channel",
    },
    "channels": {
        "type": "the type of the channel, so that two bots can be two tables",
        "agent": "the name of the agent that answers here; it may be left out if there is one agent",
        "presentation": "how an answer appears: tokens, live, native, processing, parts, blocks or final",
        "allow": 'the ids of the people who may talk to the agent, as the platform names them; "*" is everybody',
        "groups": (
            "which messages in a group are for the agent: addressed (a mention, a reply to the bot, a "
            "command), all or none"
        ),
        "busy": (
            "what a message during a turn does: queue waits, interrupt stops the turn, merge joins the next prompt"
        ),
        "on_unknown": "a part that may have arrived: hold it and report that in the chat, or resend it, marked",
        "max_age_s": "an answer older than this many seconds is not sent any more",
        "streaming_enabled": "false sends only whole answers, which is the presentation final",
        "stream_edit_interval_ms": (
            "the shortest time between two edits of a live message, in milliseconds; the platform's own pace "
            "may be slower"
        ),
        "stream_min_chunk_chars": "a live message is edited when it has grown by this many characters",
    },
    "schedule": {
        "prompt": "the text that the agent gets",
        "channel": "the name of the channel; it must have a table",
        "to": "the id of the chat or the person, as the platform names it",
        "every": "the interval: a number with s, m, h or d, at most a year",
        "cron": "the times: minute, hour, day of the month, month and weekday",
        "agent": "the name of the agent; it may be left out if there is one agent",
    },
    "shadow": {
        "presentation": "the other presentation",
        "share": "the share of the turns, above 0 and at most 1",
    },
}
"""The descriptions of the keys, by table."""
