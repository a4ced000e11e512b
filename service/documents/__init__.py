"""Document formats: extract texts, insert their translations.

Independent of HTTP, of models and of the translation of texts.
"""

from __future__ import annotations

from service.documents.opening import SUPPORTED as SUPPORTED
from service.documents.opening import open_document as open_document
from service.documents.reading.reader import DocumentReader as DocumentReader
from service.documents.reading.reader import ReadDocument as ReadDocument
from service.documents.reading.reader import ReadingLimits as ReadingLimits
from service.documents.translating import translate_document as translate_document
from service.documents.types import BrokenDocument as BrokenDocument
from service.documents.types import Document as Document
from service.documents.types import DocumentError as DocumentError
from service.documents.types import DocumentFailed as DocumentFailed
from service.documents.types import DocumentTooDemanding as DocumentTooDemanding
from service.documents.types import Languages as Languages
from service.documents.types import MarkedSource as MarkedSource
from service.documents.types import MarkupLost as MarkupLost
from service.documents.types import UnsupportedDocument as UnsupportedDocument
from service.documents.types import characters as characters
