"""What is ours and no paper's: questions that users of the library ask, answered on data of our
choice.

A module and an entry for each figure.
"""

from handful_papers.style import methods

METHODS = methods("own")
