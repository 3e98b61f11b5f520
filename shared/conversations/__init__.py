"""Conversations: threads, their messages and customers, and the turns in which the agent replies.

resource      the types of conversations and messages, their inputs and rows
commands      what can be done with a conversation
participants  the customer to whom a message belongs
turns         who may reply to a message, and until when
reply_window  what a request does until there is a reply
replies       the agent's reply, and the transaction that saves it
"""
