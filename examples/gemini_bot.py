"""gemini-cli on Telegram. Install it and log in first.

tailrace run gemini --channel telegram
python gemini_bot.py 12345      # the same as a program; 12345 is the id of a person who may write
"""

import asyncio
import sys

from tailrace import Gateway

if __name__ == "__main__":
    asyncio.run(Gateway("gemini", "telegram", allow=sys.argv[1:]).run())
