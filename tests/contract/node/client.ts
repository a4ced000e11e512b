// Calls every operation of the OpenAPI document through a generated client, with types checked.
// Prints one line of JSON: for each operation the status of its answer.

import createClient from 'openapi-fetch';
import type { paths } from './schema.js';

const [, , baseUrl, key] = process.argv;
const headers = { Authorization: `Bearer ${key}` };
const client = createClient<paths>({ baseUrl: baseUrl!, headers });
const statuses: Record<string, number> = {};

type Answered<T> = { data?: T; response: Response };

async function said<T>(operation: string, call: Promise<Answered<T>>): Promise<T> {
    const { data, response } = await call;
    statuses[operation] = response.status;
    return data as T;
}

const pair = { source: 'de', target: 'en' };
const text = 'Zwei Hunde spielen im Schnee.';
const form = (fields: Record<string, string>, file: boolean) => {
    const sent = new FormData();
    for (const [name, value] of Object.entries(fields)) sent.append(name, value);
    if (file) sent.append('file', new Blob([`${text}\n`]), 'in.txt');
    return sent;
};

for (const path of ['/livez', '/health', '/readyz', '/models', '/metrics'] as const) {
    await said(`GET ${path}`, client.GET(path, { parseAs: 'text' }) as Promise<Answered<unknown>>);
}
await said('POST /models/reload', client.POST('/models/reload'));
await said('GET /languages', client.GET('/languages'));
await said('GET /frontend/settings', client.GET('/frontend/settings'));
await said('POST /detect', client.POST('/detect', { body: { q: text } }));
await said('POST /suggest', client.POST('/suggest', { body: { q: text, s: 'Two dogs.', ...pair } }));
const translated = await said(
    'POST /translate',
    client.POST('/translate', { body: { q: text, ...pair, attention: true, alternatives: 1 } }),
);
await said('POST /alternatives', client.POST('/alternatives', { body: { q: text, ...pair, position: 0 } }));
await said('POST /sentences', client.POST('/sentences', { body: { q: text, ...pair } }));
await said('GET /listPairs', client.GET('/listPairs'));
const apertium = { query: { langpair: 'de|en', q: text } };
await said('GET /translate', client.GET('/translate', { params: apertium }));
const paragraphs = { text_list: [text], target_lang: 'en', source_lang: 'auto' };
await said('POST /imme', client.POST('/imme', { body: paragraphs }));
const google = '/language/translate/v2';
await said(`GET ${google}`, client.GET(google, { params: { query: { q: [text], target: 'en' } } }));
await said(`POST ${google}`, client.POST(google, { body: { q: [text], target: 'en' } }));
await said(`GET ${google}/languages`, client.GET(`${google}/languages`));
await said(`POST ${google}/detect`, client.POST(`${google}/detect`, { body: { q: [text] } }));
for (const path of ['/v3/languages', '/v3/languages/resources'] as const) {
    const params = { query: { resource: 'translate_text' as const } };
    await said(`GET ${path}`, client.GET(path, { params }) as Promise<Answered<unknown>>);
}
const tmx =
    '<tmx version="1.4"><header srclang="de"/><body><tu><tuv xml:lang="de"><seg>Hund</seg></tuv>' +
    '<tuv xml:lang="en"><seg>hound</seg></tuv></tu></body></tmx>';
const memories = '/v3/translation_memories';
const begun = await said(
    `POST ${memories}/import`,
    client.POST(`${memories}/import`, {
        body: { source_file: { file_name: 'a.tmx', content_length: tmx.length } },
    }),
);
const secretOf = (address: string) => new URL(address).searchParams.get('job')!;
await said(
    `PUT ${memories}/upload`,
    client.PUT(`${memories}/upload`, {
        params: { query: { job: secretOf(begun!.upload_url) } },
        body: tmx,
        bodySerializer: (body) => body,
        headers: { 'Content-Type': 'application/xml' },
    }),
);
const jobPath = { path: { job_id: begun!.job_id } };
const job = `${memories}/jobs/{job_id}` as const;
const imported = await said(`GET ${job}`, client.GET(job, { params: jobPath }));
const memory = { path: { memory_id: imported!.results[0]!.translation_memory_id! } };
await said(`GET ${memories}`, client.GET(memories));
await said(`GET ${memories}/{memory_id}`, client.GET(`${memories}/{memory_id}`, { params: memory }));
const ofMemory = `${memories}/{memory_id}/segments` as const;
await said(`GET ${ofMemory}`, client.GET(ofMemory, { params: memory }));
const exporting = `${memories}/{memory_id}/export` as const;
const exported = await said(`POST ${exporting}`, client.POST(exporting, { params: memory }));
const exportJob = await client.GET(job, { params: { path: { job_id: exported!.job_id } } });
await said(
    `GET ${memories}/download`,
    client.GET(`${memories}/download`, {
        params: { query: { job: secretOf(exportJob.data!.results[0]!.download_url!) } },
        parseAs: 'text',
    }),
);
await said(
    `DELETE ${memories}/{memory_id}`,
    client.DELETE(`${memories}/{memory_id}`, { params: memory }),
);
const id = (translated as { id: string }).id;
const known = { params: { path: { id } } };
await said('GET /translations/{id}', client.GET('/translations/{id}', known));
await said('GET /translations/{id}/attention', client.GET('/translations/{id}/attention', known));
await said('GET /translations/{id}/alignment', client.GET('/translations/{id}/alignment', known));
await said('GET /translations/{id}/search', client.GET('/translations/{id}/search', known));
const given = { source_text: text, target_text: 'Two dogs.', ...pair };
await said('POST /attention', client.POST('/attention', { body: given }));
await said('POST /score', client.POST('/score', { body: given }));

const file = await said(
    'POST /translate_file',
    client.POST('/translate_file', {
        body: { file: '', ...pair },
        bodySerializer: () => form(pair, true),
    }),
);
const name = decodeURIComponent((file as { translatedFileUrl: string }).translatedFileUrl.split('/').pop()!);
await said(
    'GET /download_file/{name}',
    client.GET('/download_file/{name}', { params: { path: { name } }, parseAs: 'text' }),
);

const languages = { source_lang: 'DE', target_lang: 'EN-GB' };
await said('POST /v2/translate', client.POST('/v2/translate', { body: { text: [text], ...languages } }));
await said(
    'GET /v2/translate',
    client.GET('/v2/translate', { params: { query: { text: [text], ...languages } } }),
);
await said('GET /v2/languages', client.GET('/v2/languages', { params: { query: { type: 'target' } } }));
await said('POST /v2/languages', client.POST('/v2/languages', { body: { type: 'target' } }));
await said('GET /v2/usage', client.GET('/v2/usage'));
await said('POST /v2/usage', client.POST('/v2/usage'));
const document = await said(
    'POST /v2/document',
    client.POST('/v2/document', {
        body: { file: '', ...languages },
        bodySerializer: () => form(languages, true),
    }),
);
const { document_id, document_key } = document as { document_id: string; document_key: string };
const path = { document_id };
let status = '';
while (status !== 'done') {
    const asked = { params: { path, query: { document_key } } };
    const answer = await said('GET /v2/document/{document_id}', client.GET('/v2/document/{document_id}', asked));
    status = (answer as { status: string }).status;
}
await said(
    'POST /v2/document/{document_id}',
    client.POST('/v2/document/{document_id}', { params: { path }, body: { document_key } }),
);
await said(
    'POST /v2/document/{document_id}/result',
    client.POST('/v2/document/{document_id}/result', {
        params: { path }, body: { document_key }, parseAs: 'text',
    }),
);
// The result can be fetched once, so the second way to ask for it is answered 404.
await said(
    'GET /v2/document/{document_id}/result',
    client.GET('/v2/document/{document_id}/result', { params: { path, query: { document_key } } }),
);

await said('GET /v2/glossary-language-pairs', client.GET('/v2/glossary-language-pairs'));
const entries = { entries: 'Hund\thound', entries_format: 'tsv' as const };
const codes = { source_lang: 'de', target_lang: 'en' };
const old = await said(
    'POST /v2/glossaries',
    client.POST('/v2/glossaries', { body: { name: 'v2', ...codes, ...entries } }),
);
const inOld = { params: { path: { glossary_id: (old as { glossary_id: string }).glossary_id } } };
await said('GET /v2/glossaries', client.GET('/v2/glossaries'));
await said('GET /v2/glossaries/{glossary_id}', client.GET('/v2/glossaries/{glossary_id}', inOld));
await said(
    'GET /v2/glossaries/{glossary_id}/entries',
    client.GET('/v2/glossaries/{glossary_id}/entries', { ...inOld, parseAs: 'text' }),
);
await said('DELETE /v2/glossaries/{glossary_id}', client.DELETE('/v2/glossaries/{glossary_id}', inOld));

const made = await said(
    'POST /v3/glossaries',
    client.POST('/v3/glossaries', { body: { name: 'v3', dictionaries: [{ ...codes, ...entries }] } }),
);
const glossary_id = (made as { glossary_id: string }).glossary_id;
const inMade = { params: { path: { glossary_id } } };
const inPair = { params: { path: { glossary_id }, query: codes } };
await said('GET /v3/glossaries', client.GET('/v3/glossaries'));
await said('GET /v3/glossaries/{glossary_id}', client.GET('/v3/glossaries/{glossary_id}', inMade));
await said(
    'PATCH /v3/glossaries/{glossary_id}',
    client.PATCH('/v3/glossaries/{glossary_id}', { ...inMade, body: { name: 'renamed' } }),
);
await said(
    'GET /v3/glossaries/{glossary_id}/entries',
    client.GET('/v3/glossaries/{glossary_id}/entries', inPair),
);
await said(
    'PUT /v3/glossaries/{glossary_id}/dictionaries',
    client.PUT('/v3/glossaries/{glossary_id}/dictionaries', { ...inMade, body: { ...codes, ...entries } }),
);
await said(
    'DELETE /v3/glossaries/{glossary_id}/dictionaries',
    client.DELETE('/v3/glossaries/{glossary_id}/dictionaries', inPair),
);
await said('DELETE /v3/glossaries/{glossary_id}', client.DELETE('/v3/glossaries/{glossary_id}', inMade));

const weblate = { params: { path: { name: 'weblate' } } };
await said('POST /admin/keys', client.POST('/admin/keys', { body: { name: 'weblate' } }));
await said('GET /admin/keys', client.GET('/admin/keys'));
await said('PUT /admin/keys/{name}', client.PUT('/admin/keys/{name}', { ...weblate, body: { bulk: true } }));
await said(
    'POST /admin/keys/{name}/rotate',
    client.POST('/admin/keys/{name}/rotate', { ...weblate, body: { old_expire: '2099-01-31T00:00:00Z' } }),
);
await said('DELETE /admin/keys/{name}', client.DELETE('/admin/keys/{name}', weblate));
await said('GET /admin/usage', client.GET('/admin/usage'));
await said('GET /admin/usage/days', client.GET('/admin/usage/days'));
console.log(JSON.stringify(statuses));
