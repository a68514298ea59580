"""One fuzz over every public class and function: `kinds` makes arguments, `table` says which thing takes which, `throw`
throws one input and judges the outcome, `run` is ``make fuzz``."""
