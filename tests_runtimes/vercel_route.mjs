// Chat routes of the AI SDK as its documentation writes them, answered by the scripted model:
//
//     node vercel_route.mjs MODULES VERSION MODEL
//
// MODULES is the folder of the npm packages, VERSION that of `ai`, MODEL the address of the model. Prints its port, and a
// line for each abort. Ends with its input, so that it ends with the test.

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

globalThis.AI_SDK_LOG_WARNINGS = false; // of the unknown model
const print = line => process.stdout.write(`${line}\n`);

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
    description: 'Count, and yield each number.',
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
      print('the tool was aborted');
    },
  }),
  transfer: ai.tool({
    description: 'Send money, if a person approves it.',
    inputSchema: z.object({ amount: z.number() }),
    needsApproval: true, // version 5 does not know it
    execute: ({ amount }) => `sent ${amount}`,
  }),
  forget: ai.tool({
    description: 'Nobody may do this.',
    inputSchema: z.object({}),
    execute: () => 'forgotten',
  }),
};

// What the application sends with its answers: the text of errors, and the usage.
const responseOptions = {
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
    onError: () => {}, // otherwise it is printed
    onAbort: () => print('the run was aborted'),
  });
}

const routes = {
  '/chat': async (question, abortSignal) => (await answer(question, abortSignal)).toUIMessageStreamResponse(responseOptions),

  '/masked': async (question, abortSignal) => (await answer(question, abortSignal)).toUIMessageStreamResponse(),

  // An application that sends data of its own.
  '/data': async (question, abortSignal) => {
    const result = await answer(question, abortSignal);
    const stream = ai.createUIMessageStream({
      execute: ({ writer }) => {
        writer.write({ type: 'data-status', data: { text: 'looking' }, transient: true });
        writer.write({ type: 'data-weather', id: 'w', data: { city: 'Oslo', sky: 'unknown' } });
        writer.write({ type: 'data-weather', id: 'w', data: { city: 'Oslo', sky: 'clear' } });
        writer.write({ type: 'source-url', sourceId: 's', url: 'https://tides.example/', title: 'Tides' });
        // A function in version 7, a method in the others.
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
    // The client or the model has closed its connection. A response that has started is cut.
    if (!response.headersSent) response.writeHead(500, { 'content-type': 'text/plain' }).end(String(error));
  }
});

server.listen(0, '127.0.0.1', () => print(server.address().port));
process.stdin.on('end', () => process.exit()).resume();
