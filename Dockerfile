# The environment of `make setup` in a container, with JupyterLab on the notebooks:
#   docker build -t handful . && docker run --rm -p 8888:8888 handful
FROM python:3.12-slim

RUN apt-get update && apt-get install -y --no-install-recommends git make && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home reader
WORKDIR /home/reader/handful
COPY --chown=reader . .
RUN chown reader .
USER reader

# torch without CUDA; the version of handful comes from git's tags where .git was copied
ENV PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu PIP_NO_CACHE_DIR=1
RUN make setup

EXPOSE 8888
CMD [".venv/bin/jupyter", "lab", "--ip=0.0.0.0", "--no-browser", "notebooks/index.ipynb"]
