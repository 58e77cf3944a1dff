"""A chat route of the Vercel AI SDK on Telegram. Your Next.js server has to run.

tailrace run vercel+http://127.0.0.1:3000/api/chat --channel telegram
python vercel_bot.py 12345      # the same as a program; 12345 is the id of a person who may write
"""

import asyncio
import sys

from tailrace import Gateway

if __name__ == "__main__":
    asyncio.run(Gateway("vercel+http://127.0.0.1:3000/api/chat", "telegram", allow=sys.argv[1:]).run())
