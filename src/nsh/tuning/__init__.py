"""The search for a method's parameters: `nsh tune`. Training the backbone too is fine-tuning, and is elsewhere.

A *study* is all trials of one method, at one code length, on the same data, over one space. A *trial* is one training
with some values. Trials are judged on held-out training images; the split's queries and gallery are not read.
"""
