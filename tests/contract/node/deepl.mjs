// Calls every operation of deepl-node that the service has, with the address and key given.
// Prints the answers as one line of JSON, by operation.

import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as deepl from 'deepl-node';
import utils from 'deepl-node/dist/utils.js';

// deepl-node asks for the status of a document every five seconds.
utils.timeout = () => new Promise((resolve) => setTimeout(resolve, 20));

const [, , serverUrl, key] = process.argv;
const client = new deepl.DeepLClient(key, { serverUrl, maxRetries: 1 });
const answers = {};
const said = async (name, promise) => (answers[name] = await promise);

const directory = mkdtempSync(join(tmpdir(), 'deepl-node-'));
const path = (name) => join(directory, name);
writeFileSync(path('in.txt'), 'Zwei Hunde spielen im Schnee.\n');
writeFileSync(path('terms.csv'), 'Hund,hound\n');

await said('getUsage', client.getUsage());
await said('getSourceLanguages', client.getSourceLanguages());
await said('getTargetLanguages', client.getTargetLanguages());
await said('getGlossaryLanguagePairs', client.getGlossaryLanguagePairs());

await said('translateText', client.translateText('Zwei Hunde spielen im Schnee.', null, 'en-GB'));
answers.translateTextWithOptions = await client.translateText(
    ['<!DOCTYPE html><p>Ein Hund.</p>', 'Eine Frau.'],
    'de',
    'en-US',
    {
        tagHandling: 'html',
        splitSentences: 'nonewlines',
        preserveFormatting: true,
        formality: 'prefer_more',
        context: 'A park.',
        ignoreTags: ['x'],
        nonSplittingTags: ['i'],
        splittingTags: ['p'],
        outlineDetection: false,
        modelType: 'latency_optimized',
    },
);

await said(
    'translateDocument',
    client.translateDocument(path('in.txt'), path('out.txt'), 'de', 'en-GB'),
);
answers.translatedDocument = readFileSync(path('out.txt'), 'utf-8');
const handle = await said('uploadDocument', client.uploadDocument(path('in.txt'), null, 'en-GB'));
await said('isDocumentTranslationComplete', client.isDocumentTranslationComplete(handle));
await said('getDocumentStatus', client.getDocumentStatus(handle));
await client.downloadDocument(handle, path('again.txt'));
answers.downloadDocument = readFileSync(path('again.txt'), 'utf-8');

const entries = new deepl.GlossaryEntries({ entries: { Hund: 'hound' } });
const old = await said('createGlossary', client.createGlossary('v2', 'de', 'en', entries));
await said('createGlossaryWithCsv', client.createGlossaryWithCsv('csv', 'de', 'en', path('terms.csv')));
await said('getGlossary', client.getGlossary(old.glossaryId));
await said('listGlossaries', client.listGlossaries());
answers.getGlossaryEntries = (await client.getGlossaryEntries(old)).entries();
answers.translateTextWithGlossary = await client.translateText(
    'Ein Hund läuft durch den Schnee.', 'de', 'en-GB', { glossary: old });
await client.deleteGlossary(old);
answers.deleteGlossary = await client.getGlossary(old.glossaryId).catch((error) => error.name);

const dictionary = (source, target, terms) => ({
    sourceLangCode: source,
    targetLangCode: target,
    entries: new deepl.GlossaryEntries({ entries: terms }),
});
const made = await said(
    'createMultilingualGlossary',
    client.createMultilingualGlossary('v3', [
        dictionary('de', 'en', { Hund: 'hound' }),
        dictionary('en', 'de', { hound: 'Hund' }),
    ]),
);
await said(
    'createMultilingualGlossaryWithCsv',
    client.createMultilingualGlossaryWithCsv('v3 csv', 'de', 'en', 'Hund,hound\n'),
);
await said('getMultilingualGlossary', client.getMultilingualGlossary(made.glossaryId));
await said('listMultilingualGlossaries', client.listMultilingualGlossaries());
await said(
    'updateMultilingualGlossaryName',
    client.updateMultilingualGlossaryName(made, 'renamed'),
);
await said(
    'updateMultilingualGlossaryDictionary',
    client.updateMultilingualGlossaryDictionary(made, dictionary('de', 'en', { Frau: 'lady' })),
);
await said(
    'updateMultilingualGlossaryDictionaryWithCsv',
    client.updateMultilingualGlossaryDictionaryWithCsv(made, 'de', 'en', 'Mann,gentleman\n'),
);
const read = async () => {
    const found = await client.getMultilingualGlossaryDictionaryEntries(made, 'de', 'en');
    return found.entries.entries();
};
answers.getMultilingualGlossaryDictionaryEntries = await read();
await said(
    'replaceMultilingualGlossaryDictionary',
    client.replaceMultilingualGlossaryDictionary(made, dictionary('de', 'en', { Kind: 'kid' })),
);
answers.afterReplacing = await read();
await said(
    'replaceMultilingualGlossaryDictionaryWithCsv',
    client.replaceMultilingualGlossaryDictionaryWithCsv(made, 'de', 'en', 'Haus,mansion\n'),
);
answers.afterReplacingWithCsv = await read();
answers.translateTextWithMultilingualGlossary = await client.translateText(
    'Ein Haus steht im Wald.', 'de', 'en-GB', { glossary: made });
await client.deleteMultilingualGlossaryDictionary(made, 'en', 'de');
answers.deleteMultilingualGlossaryDictionary = await client.getMultilingualGlossary(made.glossaryId);
await client.deleteMultilingualGlossary(made);
answers.deleteMultilingualGlossary = await client
    .getMultilingualGlossary(made.glossaryId)
    .catch((error) => error.name);

const tmx = Buffer.from(
    '<?xml version="1.0"?><tmx version="1.4"><header srclang="de"/><body><tu>' +
        '<tuv xml:lang="de"><seg>Zwei Hunde.</seg></tuv>' +
        '<tuv xml:lang="en"><seg>A pair of dogs.</seg></tuv></tu></body></tmx>',
);
const begun = await said(
    'createTranslationMemoryImport',
    client.createTranslationMemoryImport('pairs.tmx', tmx.length),
);
await client.uploadTranslationMemoryFile(begun, tmx);
const imported = await said(
    'isTranslationMemoryJobComplete',
    client.isTranslationMemoryJobComplete(begun.jobId),
);
answers.uploadTranslationMemoryFile = imported.results[0].status;
const memory = await said(
    'getTranslationMemory',
    client.getTranslationMemory(imported.results[0].translationMemoryId),
);
await said('listTranslationMemories', client.listTranslationMemories());
await said(
    'listTranslationMemorySegments',
    client.listTranslationMemorySegments(memory, { filterText: 'dogs' }),
);
answers.translateTextWithTranslationMemory = await client.translateText(
    'Zwei Hunde.', 'de', 'en-GB', { translationMemory: memory, translationMemoryThreshold: 80 });
const exporting = await said(
    'createTranslationMemoryExport',
    client.createTranslationMemoryExport(memory),
);
const exported = await said(
    'getTranslationMemoryJob',
    client.getTranslationMemoryJob(exporting.jobId),
);
await client.downloadTranslationMemoryExport(exported, path('exported.tmx'));
answers.downloadTranslationMemoryExport = readFileSync(path('exported.tmx'), 'utf-8');
await client.deleteTranslationMemory(memory);
answers.deleteTranslationMemory = await client
    .getTranslationMemory(memory.translationMemoryId)
    .catch((error) => error.name);

const wrong = new deepl.DeepLClient('wrong', { serverUrl, maxRetries: 0 });
answers.wrongKey = await wrong.getUsage().catch((error) => error.name);
answers.methods = [deepl.Translator, deepl.DeepLClient]
    .flatMap((each) => Object.getOwnPropertyNames(each.prototype))
    .filter((name) => /^(get|create|list|update|replace|delete|translate|upload|download|is)[A-Z]/.test(name));
console.log(JSON.stringify(answers));
