"""Parts of speech by small word lists: enough to ask whether a group of tokens is a grammatical category.

Lists, not a tagger: a word has one part, the one it most often is; what no list and no ending knows is `other`.
"""

PARTS = {
    "determiner": "the a an this that these those each every some any no all both either neither such another what which whose",
    "pronoun": "i me my mine myself you your yours yourself he him his himself she her hers herself it its itself we us our "
               "ours ourselves they them their theirs themselves who whom one nobody somebody everybody nothing something anything everything",
    "preposition": "of in to for with on at from by about as into like through after over between out against during without "
                   "before under around among upon within along behind beyond toward towards beside near above below off up down",
    "conjunction": "and but or nor so yet if because although though while when where whether unless until since than",
    "auxiliary": "is am are was were be been being have has had having do does did will would shall should can could may might must ought",
    "adverb": "not very too also just only then now here there never always often again soon still already almost ever well "
              "even quite rather perhaps indeed however therefore away back together more most less least much how why once",
    "verb": "said say says go goes went gone come came see saw seen know knew known think thought make made take took taken give "
            "gave given get got find found tell told seem seemed feel felt become became leave left put let keep kept ask asked look looked "
            "hear heard hope wish believe suppose speak spoke walk walked want wanted love loved",
    "noun": "man men woman women time day days year years way thing things world life hand house people place mother father sister "
            "brother daughter son lady gentleman friend friends letter room door heart mind morning evening night word words family child "
            "children wife husband home country town answer question name happiness pleasure",
    "adjective": "good great little old young own other new long same last first few many dear happy poor sure able true whole "
                 "best better large small next early agreeable handsome",
    "title": "mr mrs miss sir lady dr captain colonel lord",
}  # fmt: skip
ENDINGS = {
    "adverb": ("ly",),
    "noun": ("tion", "sion", "ness", "ment", "ity", "ance", "ence", "ship"),
    "verb": ("ing", "ed"),
    "adjective": ("ous", "ful", "able", "ible", "ive", "less"),
}
BY_WORD = {word: part for part, words in reversed(PARTS.items()) for word in words.split()}
NAMES = (*PARTS, "number", "punctuation", "piece", "other")


def part_of_speech(token: str) -> str:
    """Of a decoded token, its leading space included: without one it is a piece of a word, unless it is no letter."""
    bare = token.strip()
    if not bare or not any(c.isalnum() for c in bare):
        return "punctuation"
    if any(c.isdigit() for c in bare):
        return "number"
    word = bare.lower()
    if word in BY_WORD:
        return BY_WORD[word]
    if token[0].isalpha() and word == bare:
        return "piece"
    for part, endings in ENDINGS.items():
        if len(word) > 5 and word.endswith(endings):
            return part
    return "other"
