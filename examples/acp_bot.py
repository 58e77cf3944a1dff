"""An agent of the Agent Client Protocol on Telegram. The command behind `acp:` starts it.

tailrace run acp:claude-agent-acp --channel telegram
python acp_bot.py 12345      # the same as a program; 12345 is the id of a person who may write
"""

import asyncio
import sys

from tailrace import Gateway

if __name__ == "__main__":
    asyncio.run(Gateway("acp:claude-agent-acp", "telegram", allow=sys.argv[1:]).run())
