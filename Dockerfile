# The app on a CPU, as a user without rights. docs/deploy.md says how to build and run it.
FROM python:3.12-slim

ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
# A catalogue id, fetched into the image; empty leaves it to the first visitor.
ARG MODEL=smollm2-135m

ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 LMGC_CACHE=/home/lmgc/cache PORT=8501

RUN useradd --create-home --uid 1000 lmgc
WORKDIR /home/lmgc/app
COPY requirements.txt ./
COPY deploy/install.sh deploy/
RUN deploy/install.sh
COPY . .
# The results are kept here: mount a volume to keep them beyond the container.
RUN mkdir -p "$LMGC_CACHE" && chown lmgc "$LMGC_CACHE"

USER lmgc
RUN if [ -n "$MODEL" ]; then python -m lmgc_core models fetch "$MODEL"; fi

EXPOSE 8501
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["deploy/healthy.sh"]
CMD ["deploy/serve.sh"]
