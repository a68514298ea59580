"""What is ours and no paper's: questions that users of the library ask, answered on data of our choice.

Protocols, items and claims, looks of its methods.
"""

from handful_papers.style import methods

METHODS = methods("own")
