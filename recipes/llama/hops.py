"""Attention supervision of questions through two documents (two hops).

Such questions are learned late: the loss of the answer does not depend on which of the two hops failed. start.NAME_HEAD is to find the
end of the sentence with the friend's name, start.VALUE_HEAD the value.
"""

from llama.attention_loss import Targets
from llama.data import Array, Words, asks_two_documents
from llama.start import NAME_HEAD, VALUE_HEAD


def find(words: Words, ids: Array, marks: Array) -> Targets:
    """Of a batch [rows, length]: questions through two documents whose answer is marked. " is" ends each of
    "<attribute> of <name> is", "friend of <name> is" and "<attribute> of the friend of <name> is", a name being two tokens."""
    friend, of, is_ = words.one(" friend"), words.one(" of"), words.one(" is")
    targets: Targets = {NAME_HEAD: [], VALUE_HEAD: []}
    for r, tokens in enumerate(ids.tolist()):
        friends: dict[tuple[int, int], tuple[tuple[int, int], int]] = {}
        values: dict[tuple[tuple[int, int], int], int] = {}
        for i in range(7, len(tokens) - 3):
            if tokens[i] != is_ or tokens[i - 3] != of:
                continue
            who = (tokens[i - 2], tokens[i - 1])
            if tokens[i - 4] != friend:
                values.setdefault((who, tokens[i - 4]), i + 1)
            elif not asks_two_documents(words, tokens, i):
                friends.setdefault(who, ((tokens[i + 1], tokens[i + 2]), i + 3))
            elif marks[r, i] and who in friends and (friends[who][0], tokens[i - 7]) in values:
                targets[NAME_HEAD].append((r, i, friends[who][1]))
                targets[VALUE_HEAD].append((r, i, values[friends[who][0], tokens[i - 7]]))
    return targets
