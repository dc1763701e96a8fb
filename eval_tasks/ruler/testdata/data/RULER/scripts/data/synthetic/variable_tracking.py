# Stand-in: the text that is read from this file.
    haystack = "Grass is green. Here we go again."
