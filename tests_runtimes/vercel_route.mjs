// Chat routes of the AI SDK as its documentation writes them, answered by the scripted model:
//
//     node vercel_route.mjs MODULES VERSION MODEL
//
// MODULES is the folder where npm has put the packages, VERSION the one of `ai`, MODEL the address of the model. Says its
// port on a line, and what was aborted on a line each. Ends with its input, so that it outlives nobody.

import { exec } from 'node:child_process';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { Readable } from 'node:stream';
import { json } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';

const [modules, version, modelUrl] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const ai = require(`ai${version}`);
const { createAnthropic } = require(`anthropic${version}`);
const { z } = require('zod');

globalThis.AI_SDK_LOG_WARNINGS = false; // that this model is unknown
const say = line => process.stdout.write(`${line}\n`);

const tools = {
  bash: ai.tool({
    description: 'Run a command.',
    inputSchema: z.object({ command: z.string(), description: z.string().optional() }),
    execute: ({ command }) =>
      new Promise((done, fail) => {
        exec(command, (error, stdout, stderr) => (error ? fail(new Error(stderr.trim())) : done(stdout)));
      }),
  }),
  count: ai.tool({
    description: 'Count, and tell each number.',
    inputSchema: z.object({ to: z.number() }),
    async *execute({ to }) {
      for (let number = 1; number <= to; number++) yield { number };
    },
  }),
  wait: ai.tool({
    description: 'Wait until the run is aborted.',
    inputSchema: z.object({}),
    async *execute(_, { abortSignal }) {
      yield 'at work';
      await new Promise(done => abortSignal.addEventListener('abort', done));
      say('the tool was aborted');
    },
  }),
  transfer: ai.tool({
    description: 'Send money, if somebody lets it.',
    inputSchema: z.object({ amount: z.number() }),
    needsApproval: true, // which version 5 does not know
    execute: ({ amount }) => `sent ${amount}`,
  }),
  forget: ai.tool({
    description: 'What nobody may do.',
    inputSchema: z.object({}),
    execute: () => 'forgotten',
  }),
};

// What the application tells of its answers: how its routes fail, and what they have cost.
const telling = {
  sendReasoning: true,
  onError: error => (error instanceof Error ? error.message : JSON.stringify(error)),
  messageMetadata: ({ part }) => (part.type === 'finish' ? { totalUsage: part.totalUsage } : undefined),
};

async function answer({ messages }, abortSignal) {
  return ai.streamText({
    model: createAnthropic({ baseURL: `${modelUrl}/v1`, apiKey: 'nobody-checks-it' })('scripted'),
    providerOptions: { anthropic: { thinking: { type: 'enabled', budgetTokens: 1024 } } },
    messages: await ai.convertToModelMessages(await ai.validateUIMessages({ messages, tools }), { tools }),
    tools,
    toolApproval: { forget: { type: 'denied', reason: 'Nobody may do that.' } }, // only version 7 knows it
    stopWhen: ai.stepCountIs(5),
    maxRetries: 0,
    abortSignal,
    onError: () => {}, // which would be printed
    onAbort: () => say('the run was aborted'),
  });
}

const routes = {
  '/chat': async (question, abortSignal) => (await answer(question, abortSignal)).toUIMessageStreamResponse(telling),

  '/masked': async (question, abortSignal) => (await answer(question, abortSignal)).toUIMessageStreamResponse(),

  // An application that says something of its own beside the model.
  '/data': async (question, abortSignal) => {
    const result = await answer(question, abortSignal);
    const stream = ai.createUIMessageStream({
      execute: ({ writer }) => {
        writer.write({ type: 'data-status', data: { text: 'looking' }, transient: true });
        writer.write({ type: 'data-weather', id: 'w', data: { city: 'Oslo', sky: 'unknown' } });
        writer.write({ type: 'data-weather', id: 'w', data: { city: 'Oslo', sky: 'clear' } });
        writer.write({ type: 'source-url', sourceId: 's', url: 'https://tides.example/', title: 'Tides' });
        // Version 7 has a function where the others have a method.
        writer.merge(
          ai.toUIMessageStream ? ai.toUIMessageStream({ stream: result.stream }) : result.toUIMessageStream(),
        );
      },
    });
    return ai.createUIMessageStreamResponse({ stream });
  },
};

const server = createServer(async (request, response) => {
  const leaving = new AbortController();
  response.on('close', () => leaving.abort());
  try {
    const answered = await routes[request.url](await json(request), leaving.signal);
    response.writeHead(answered.status, Object.fromEntries(answered.headers));
    await pipeline(Readable.fromWeb(answered.body), response);
  } catch (error) {
    // Whoever asked has gone, or the model has; what was begun is cut off by now.
    if (!response.headersSent) response.writeHead(500, { 'content-type': 'text/plain' }).end(String(error));
  }
});

server.listen(0, '127.0.0.1', () => say(server.address().port));
process.stdin.on('end', () => process.exit()).resume();
