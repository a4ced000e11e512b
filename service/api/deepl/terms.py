"""Loads the terms of the glossaries named in a request, for texts and documents."""

from __future__ import annotations

from collections.abc import Sequence

from service.api.access import Caller
from service.api.deepl.languages import language, stored_pair
from service.api.errors import BadRequest
from service.state.errors import DictionaryNotFound
from service.state.glossaries import GlossaryStore
from service.translation.catalogue import Catalogue
from service.translation.types import Term

_MOST_GLOSSARIES = 5


async def terms_of(
    store: GlossaryStore,
    caller: Caller,
    offer: Catalogue,
    glossary_id: str | None,
    glossary_ids: Sequence[str],
    source: str | None,
    target: str,
) -> tuple[Term, ...]:
    """Terms of all named glossaries; the first glossary wins for a repeated source term.

    Raises ``GlossaryNotFound``, or ``BadRequest``, for example for a missing language pair.
    """
    identifiers = list(dict.fromkeys(glossary_ids))
    if glossary_id is not None:
        identifiers.append(glossary_id)
    if not identifiers:
        return ()
    if len(identifiers) > _MOST_GLOSSARIES:
        raise BadRequest(f"Value for 'glossary_ids' not supported: more than {_MOST_GLOSSARIES}.")
    glossaries = [await store.get(caller.name, identifier) for identifier in identifiers]
    if glossary_id is not None and glossary_ids:
        raise BadRequest("give either 'glossary_id' or 'glossary_ids'")
    if source is None:
        raise BadRequest("Parameter 'source_lang' not specified: a glossary needs it.")
    source_code = language(offer, source, "sources")
    target_code = language(offer, target, "targets")
    found: dict[str, Term] = {}
    for glossary in glossaries:
        pairs = tuple(dictionary.pair for dictionary in glossary.dictionaries)
        pair = stored_pair(source_code, target_code, pairs)
        try:
            terms = await store.terms(caller.name, glossary.id, pair)
        except DictionaryNotFound as error:
            raise BadRequest(f"the languages do not match: {error}") from error
        for term in terms:
            found.setdefault(term.source, term)
    return tuple(found.values())
