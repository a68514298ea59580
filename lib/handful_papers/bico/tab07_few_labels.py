"""Which numbers decide the claims of Table 7."""

from handful_papers.claims import Evidence, paired_differences

LEADS = {  # what is compared: claims on the Spoken Digits and on Speech Commands
    ("mixmatch", ("supervised", "supervised augmented")): ("mixmatch-above-supervised", "mixmatch-speech-commands"),
    ("supervised augmented", ("supervised",)): ("augmentation-helps", "augmentation-speech-commands"),
}


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    dataset = run.parameters["dataset"]
    lacks = Evidence(lacks="Speech Commands is not part of this run")
    found = {}
    for (a, others), (on_digits, on_commands) in LEADS.items():
        leads = paired_differences(run.rows, a=a, b=others, value="accuracy", by="labels")
        found[f"bico-tab07-{on_digits}"] = lead = Evidence(leads, facts={"data": dataset})
        found[f"bico-tab07-{on_commands}"] = lead if dataset == "speech_commands" else lacks
    return found
