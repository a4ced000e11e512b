/** Parses the server-sent events of a response; yields `{name, data}` as they arrive. */

export async function* events(response) {
  const decoder = new TextDecoder();
  let waiting = "";
  for await (const bytes of chunks(response.body.getReader())) {
    const blocks = (waiting + decoder.decode(bytes, { stream: true })).split("\n\n");
    waiting = blocks.pop();
    yield* blocks.map(event).filter(({ name }) => name);
  }
}

/** Not every browser supports `for await` on streams. */
async function* chunks(reader) {
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    reader.releaseLock();
  }
}

function event(block) {
  const fields = block.split("\n").map((line) => line.split(/: (.*)/s));
  const { event: name, data } = Object.fromEntries(fields);
  return { name, data: data === undefined ? null : JSON.parse(data) };
}
