"""Sentences of every language that Firefox's models read or write, and of some other scripts."""

# ruff: noqa: RUF001 - letters of other scripts resemble Latin ones

from __future__ import annotations

import pytest

from service.engine.errors import SentenceTooLong
from service.text.detection import LinguaDetector
from service.text.faithfulness import added_full_stop, closest_by_figures
from service.text.glossary.term_index import TermIndex
from service.text.markup import parse
from service.text.segmentation import TokenLimit, rejoined, segment
from service.text.types import Term

ANY_LENGTH = TokenLimit(len, 10**9)

SENTENCES = {
    "ar": "يولد جميع الناس أحراراً متساوين في الكرامة والحقوق. | كيف حالك؟ | وصل د. أحمد اليوم!",
    "az": "Bütün insanlar ləyaqət və hüquqlarına görə azad doğulurlar. | Prof. Əliyev gəldi.",
    "be": "Усе людзі нараджаюцца свабоднымі і роўнымі. | Ён жыве на вул. Леніна.",
    "bg": "Всички хора се раждат свободни и равни по достойнство. | Той живее на ул. Витоша.",
    "bn": "সমস্ত মানুষ স্বাধীনভাবে জন্মগ্রহণ করে। | ড. ইউনূস কথা বললেন। | কেন?",
    "bs": "Sva ljudska bića rađaju se slobodna. | Živi u ul. Maršala Tita.",
    "ca": "Tots els éssers humans neixen lliures i iguals en dignitat. | El Dr. Puig ha vingut.",
    "cs": "Všichni lidé rodí se svobodní a sobě rovní. | Přišel Dr. Novák 5. května.",
    "da": "Alle mennesker er født frie og lige i værdighed. | Hr. Jensen gik hjem.",
    "de": "Alle Menschen sind frei und gleich an Würde geboren. | Dr. Müller kam am 3. Mai.",
    "el": "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι. | Τι κάνεις; | Πού πας\u037e | Καλά είμαι.",
    "en": "All human beings are born free and equal in dignity. | Dr. Smith came today.",
    "es": "Todos los seres humanos nacen libres e iguales. | ¿Qué tal? | ¡Muy bien!",
    "et": "Kõik inimesed sünnivad vabadena ja võrdsetena. | Dr. Tamm tuli täna.",
    "fa": "تمام افراد بشر آزاد به دنیا می‌آیند. | چرا نمی‌دانید؟ | همه دارای عقل و وجدان می‌باشند.",
    "fi": "Kaikki ihmiset syntyvät vapaina ja tasavertaisina. | Tri. Virtanen tuli tänään.",
    "fr": "Tous les êtres humains naissent libres et égaux. | M. Petit et Mme. Blanc sont venus.",
    "gu": "સર્વ માનવો જન્મથી સ્વતંત્ર અને સમાન હોય છે. | ડૉ. પટેલ આવ્યા.",
    "he": 'כל בני האדם נולדו בני חורין ושווים בערכם. | ד"ר כהן בא. | מה שלומך?',
    "hi": "सभी मनुष्यों को जन्मजात स्वतन्त्रता प्राप्त है। | डॉ. शर्मा आए। | क्या?",
    "hr": "Sva ljudska bića rađaju se slobodna i jednaka. | Npr. Zagreb je velik.",
    "hu": "Minden emberi lény szabadon születik és egyenlő. | Dr. Kovács megjött ma.",
    "id": "Semua orang dilahirkan merdeka dan mempunyai martabat. | Jl. Sudirman macet.",
    "is": "Hver maður er borinn frjáls og jafn öðrum. | Dr. Jónsson kom í dag.",
    "it": "Tutti gli esseri umani nascono liberi ed eguali. | Il Dott. Rossi è arrivato.",
    "ja": "すべての人間は自由である。 | 彼は「行くよ。待ってて。」と言った。 | 本当？ | はい！",
    "kn": "ಎಲ್ಲಾ ಮಾನವರೂ ಸ್ವತಂತ್ರರಾಗಿಯೇ ಜನಿಸಿದ್ದಾರೆ. | ಡಾ. ರಾವ್ ಬಂದರು.",
    "ko": '모든 인간은 태어날 때부터 자유롭다. | 그는 "네."라고 했다. | 정말?',
    "lt": "Visi žmonės gimsta laisvi ir lygūs savo orumu. | Prof. Petraitis atvyko.",
    "lv": "Visi cilvēki piedzimst brīvi un vienlīdzīgi. | Dr. Bērziņš ieradās.",
    "ml": "മനുഷ്യരെല്ലാവരും സ്വാതന്ത്ര്യത്തോടുംകൂടി ജനിച്ചവരാണ്. | ഡോ. നായർ വന്നു.",
    "ms": "Semua manusia dilahirkan bebas dan samarata. | Encik Ali boleh pergi kerana itu.",
    "mt": "Il-bnedmin kollha jitwieldu ħielsa u ugwali. | Dr. Borg wasal mingħajr qoxra.",
    "nb": "Alle mennesker er født frie og med samme menneskeverd. | Hva skjer med f.eks. Oslo?",
    "nl": "Alle mensen worden vrij en gelijk geboren. | Mevr. Jansen kwam niet.",
    "nn": "Alle menneske er fødde til fridom og med same verde. | Eg veit ikkje kva dei heiter.",
    "pl": "Wszyscy ludzie rodzą się wolni i równi. | Dr. Nowak mieszka przy ul. Długiej.",
    "pt": "Todos os seres humanos nascem livres e iguais. | A Sra. Costa não chegou.",
    "ro": "Toate ființele umane se nasc libere și egale. | Dl. Ionescu stă pe str. Lungă.",
    "ru": "Все люди рождаются свободными и равными. | См. рис. 5. | Он живёт на ул. Ленина.",
    "sk": "Všetci ľudia sa rodia slobodní a sebe rovní. | Prof. Horák býva na ul. Dlhej.",
    "sl": "Vsi ljudje se rodijo svobodni in imajo enako dostojanstvo. | Npr. Ljubljana je velika.",
    "sq": "Të gjithë njerëzit lindin të lirë dhe të barabartë. | Dr. Hoxha erdhi sot.",
    "sr": "Сва људска бића рађају се слободна. | Проф. Петровић је дошао 5. маја.",
    "sv": "Alla människor är födda fria och lika i värde. | Det finns t.ex. Stockholm.",
    "ta": "மனிதர்கள் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர். | திரு. ராஜா வரவில்லை. | ஏன்?",
    "te": "మానవులెల్లరును జన్మతః స్వతంత్రులు. | డా. రావు వచ్చారు.",
    "tr": "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar. | Dr. Yılmaz geldi.",
    "uk": "Всі люди народжуються вільними і рівними. | Він живе на вул. Хрещатик у м. Київ.",
    "vi": "Tất cả mọi người sinh ra đều được tự do. | TS. Nguyễn sống ở TP. Hồ Chí Minh.",
    "zh": "人人生而自由，在尊严和权利上一律平等。 | 真的吗？ | 他走了！",
}
OTHERS = {
    "am": "የሰው፡ልጅ፡ሁሉ፡ነጻና፡እኩልነት፡ያለው፡ነው። | ማስተዋልና፡ሕሊና፡አለው።",
    "hy": "Բոլոր մարդիկ ծնվում են ազատ։ | Չգիտեմ։",
    "ka": "ყველა ადამიანი იბადება თავისუფალი. | მათ აქვთ გონება.",
    "km": "មនុស្សទាំងអស់កើតមកមានសេរីភាព។ | មនុស្សគ្រប់រូបមានវិចារណញ្ញាណ។",
    "my": "လူတိုင်းသည် တူညီ လွတ်လပ်သည်။ | စိတ်တို့ရှိကြ၏။",
    "th": "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกัน",
    "ur": "تمام انسان آزاد پیدا ہوئے ہیں۔ | انہیں ضمیر ودیعت ہوا ہے۔",
}
WITHOUT_BLANKS = ("ja", "km", "zh")
CONFUSED = ({"bs", "hr"}, {"id", "ms"}, {"da", "nb", "nn"})
"""Languages whose single sentences may equally well be of another one."""


@pytest.mark.parametrize("language", [*SENTENCES, *OTHERS])
def test_sentences_of_a_script_end_at_its_marks(language: str) -> None:
    sentences = (SENTENCES | OTHERS)[language].split(" | ")
    text = ("" if language in WITHOUT_BLANKS else " ").join(sentences)
    spans = segment(text, language, ANY_LENGTH)
    assert [text[start:end] for start, end in spans] == sentences


@pytest.fixture(scope="module")
def detector() -> LinguaDetector:
    return LinguaDetector()


@pytest.mark.parametrize("language", SENTENCES)
def test_each_served_language_is_detected_among_all(
    language: str, detector: LinguaDetector
) -> None:
    text = SENTENCES[language].replace(" | ", " ")
    found = detector.detect(text, sorted(SENTENCES))[0].language
    assert found in next((group for group in CONFUSED if language in group), {language})


@pytest.mark.parametrize("language", sorted(set(OTHERS) - {"ur"}))
def test_a_script_of_its_own_is_detected_without_tables(
    language: str, detector: LinguaDetector
) -> None:
    found = detector.detect(OTHERS[language], ["de", "en", *sorted(OTHERS)])
    assert [each.language for each in found] == [language]


@pytest.mark.parametrize(
    ("text", "languages", "language"),
    [
        ("OpenAI发布了新的GPT模型。", ["en", "ja", "zh"], "zh"),
        ("OpenAIが新しいモデルを発表した。", ["en", "ja", "zh"], "ja"),
        ("我們說話的時候", ["en", "zh", "zh-Hant"], "zh-Hant"),
        ("我们说话的时候", ["en", "zh", "zh-Hant"], "zh"),
        ("Sva ljudska bića rađaju se slobodna i jednaka.", ["en", "sr"], "sr"),
        ("Сва људска бића", ["en", "sr"], "sr"),
    ],
)
def test_variants_and_mixed_scripts_are_detected(
    text: str, languages: list[str], language: str, detector: LinguaDetector
) -> None:
    assert detector.detect(text, languages)[0].language == language


@pytest.mark.parametrize(
    ("separator", "source", "target", "expected"),
    [
        ("", "zh", "en", " "),
        ("", "zh-Hans", "ko", " "),
        ("</b><i>", "ja", "de", "</b> <i>"),
        ("\u3000", "ja", "en", " "),
        (" ", "en", "ja", ""),
        ("</b> <i>", "en", "zh", "</b><i>"),
        (" ", "en", "th", " "),
        ("", "ja", "zh", ""),
        (" ", "de", "en", " "),
        ("\n", "en", "ja", "\n"),
        (" 😀 ", "en", "ja", " 😀 "),
    ],
)
def test_blanks_between_sentences_are_those_of_the_target(
    separator: str, source: str, target: str, expected: str
) -> None:
    outer = "\u3000"
    assert rejoined([outer, separator, outer], source, target) == [outer, expected, outer]


def test_a_long_sentence_without_blanks_is_split_between_characters() -> None:
    for text, language in (("人间自由平等" * 10, "zh"), ("มนุษย์ทั้งหลายเกิดมามีอิสระ" * 4, "th")):
        spans = segment(text, language, TokenLimit(len, 25))
        assert len(spans) > 1
        assert "".join(text[start:end] for start, end in spans) == text
        assert not any(text[start] in "\u0e31\u0e34\u0e38\u0e48\u0e49\u0e4c" for start, _ in spans)
    with pytest.raises(SentenceTooLong):
        segment("ก" + "\u0e49" * 40, "th", TokenLimit(len, 25))


def test_a_placeholder_between_characters_without_blanks_leaves_none() -> None:
    (run,) = parse("点击{name}按钮。").runs
    assert run.text == "点击按钮。"
    (point,) = [atom for atom in run.atoms if atom.kind == "point"]
    assert (point.left, point.right) == ("blank", "blank")


def test_a_term_ends_after_its_vowel_signs() -> None:
    index = TermIndex((Term("हिन", "x"),))
    assert not index.occur_in("यह हिन्दी है")
    assert index.occur_in("यह हिन है")


def test_digits_and_full_stops_of_other_scripts_count() -> None:
    assert closest_by_figures("12.5 % on 7 May", ["٧ مايو", "١٢٫٥٪ في ٧ مايو"]) == 1
    assert added_full_stop("Heading", "शीर्षक।") == len("शीर्षक")
    assert added_full_stop("A sentence.", "एक वाक्य।") is None
