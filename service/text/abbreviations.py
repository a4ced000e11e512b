"""Abbreviations after which a capital letter begins no sentence, by language.

``sentencex`` lacks these: titles before names, kinds of streets and towns, *for example*. A list is
for languages in which a test has shown a wrong sentence end.
"""

# ruff: noqa: RUF001 - letters of other scripts resemble Latin ones

from __future__ import annotations

import re

_ABBREVIATIONS = {
    "ar": "د أ م",
    "be": "акад вул гл г д гл дац прасп праф св стар",
    "bn": "ডা ড মো মি প্রফ অধ্যা",
    "bs": "br dr inž mr npr prof sv tj tzv ul",
    "da": "bl dr frk hr jf nr prof skt",
    "de": "bzgl fa hrsg inkl zzgl",
    "el": "αρ οδ σελ",
    "en": "approx ch est para vol",
    "fi": "esim fil hra mm nk prof pyh rva tri toht ts",
    "fr": "art av bd chap dr fig m mgr mlle mm mme no pr prof st ste",
    "gu": "ડૉ ડો પ્રો શ્રી શ્રીમતી કુ",
    "hi": "कु डॉ डा पं प्रो मि मो श्री श्रीमती सुश्री स्व",
    "hr": "br dr dipl inž ing mr npr prof sv tj tzv ul",
    "id": "bpk dr drs gg ir jl kab kec no prof sdr st",
    "it": "pag",
    "kn": "ಡಾ ಪ್ರೊ ಶ್ರೀ ಶ್ರೀಮತಿ ಕು",
    "ml": "ഡോ പ്രൊഫ ശ്രീ ശ്രീമതി",
    "ms": "bhd dr en hj jln kg no pn prof sdn",
    "nb": "bl dr eks f.eks fr hr nr prof sml st",
    "nl": "bijv ca dhr dr drs ing ir jhr jr mevr mr mw nr prof st",
    "nn": "bl dr f.eks fr hr nr prof st",
    "pl": "al doc dr gen hab im inż ks m.in mec mgr np nr o os p pl płk por prof red św tj tzw ul "
    "wg",
    "pt": "av pág",
    "ro": "bd bul d-l d-na dl dna dr gen ing nr pr prof sf str",
    "ru": "акад г гл гр д доц им инж кн наб обл пер пл пр просп проф рис св см стр табл ул",
    "sl": "dr dipl inž mag npr prof sv št ul",
    "sr": "бр г др инж мр нпр проф св тзв тј ул br dr inž mr npr prof sv tj tzv ul",
    "sv": "bl dr f.n hr kl nr prof st t.ex",
    "ta": "திரு திருமதி டாக்டர் டாக் முனைவர் செல்வி பேரா",
    "te": "డా డాక్టర్ ప్రొ శ్రీ శ్రీమతి కు",
    "uk": "акад б буд вул г гл див доц ім інж м напр обл пл пров просп проф рис св с стор",
    "vi": "bs gs ks ls pgs q p ths tp ts tt tx",
}
_ENDS = {
    language: re.compile(
        rf"(?:\A|[\s(\[«„“\"'’])(?:{'|'.join(map(re.escape, words.split()))})\.\s*\Z"
    )
    for language, words in _ABBREVIATIONS.items()
}


def ends_with_abbreviation(text: str, language: str) -> bool:
    """Whether the last word of a text is a known abbreviation of a language with its full stop."""
    known = _ENDS.get(language)
    return known is not None and known.search(text[-_LONGEST:].lower()) is not None


_LONGEST = 24
"""Characters that hold an abbreviation, the character before it and blanks after it."""
