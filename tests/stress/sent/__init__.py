"""What is sent to the public functions of the library, and how their answers are judged."""
