# Stand-in: the text that is read from this file.
DOCUMENT_PROMPT = "Document {i}:\n{document}"
