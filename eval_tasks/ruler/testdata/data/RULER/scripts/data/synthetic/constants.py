# Stand-ins for upstream's prompts: the same slots, other words.
TASKS = {
    'niah': {
        'tokens_to_generate': 128,
        'template': """Some secret {type_needle_v} are in this text. Keep them; questions about the {type_needle_v} follow.\n{context}\nWhich are all the secret {type_needle_v} of {query}?""",
        'answer_prefix': """ The secret {type_needle_v} of {query} are"""
    },

    'variable_tracking': {
        'tokens_to_generate': 30,
        'template': """Follow the chain(s) of variables in this text.\n\n{context}\nQuestion: Which variables have the value {query}?""",
        'answer_prefix': """ Answer: By the text, {num_v} variables have the value {query}: """
    },

    'common_words_extraction': {
        'tokens_to_generate': 120,
        'template': """A list of words follows, some of them often.\n{context}\nQuestion: Which 10 are most common?""",
        'answer_prefix': """ Answer: The top 10 words are:"""
    },

    'freq_words_extraction' : {
        'tokens_to_generate': 50,
        'template': """Count the coded words. {context}\nQuestion: Ignore the dots '....'. Which three are most frequent?""",
        'answer_prefix': """ Answer: By the text, the three are:"""
    },

    'qa': {
        'tokens_to_generate': 32,
        'template': """Answer from these documents alone.\n\n{context}\n\nQuestion: {query}""",
        'answer_prefix': """ Answer:""",
    },
}
