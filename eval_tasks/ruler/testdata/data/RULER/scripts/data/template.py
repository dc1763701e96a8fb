# Stand-ins: two forms of chat prompts.
Templates = {
    'base': "{task_template}",

    'brackets': "[ASK] {task_template} [END]",

    'some-chat': "Some answers are all short.\nUSER: {task_template} ASSISTANT:",
}
