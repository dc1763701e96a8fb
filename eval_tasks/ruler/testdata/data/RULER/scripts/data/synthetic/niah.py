# Stand-in: the two texts that are read from this file.
needle = "One secret {type_needle_v} of {key} is this: {value}."
    haystack = "Grass is green. Here we go again."
