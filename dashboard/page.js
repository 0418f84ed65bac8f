// SPDX-License-Identifier: Apache-2.0
// Draws the curves and makes the page comfortable. Every number is in the page without it.
'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const charts = [];
  let errors = 0;
  addEventListener('error', () => { document.body.dataset.errors = ++errors; });
  document.body.dataset.errors = 0;

  // One colour a random policy, one dash a mesh: both matter, so neither is told by colour alone.
  const light = ['#0b6e78', '#d2691e', '#7a3fb0', '#1f6fd1', '#b0306a', '#5b7a12', '#8a5a2b', '#444f5c'];
  const dark = ['#4fc3cd', '#f3a05a', '#c39af0', '#7db4f7', '#f08bb8', '#b3d15a', '#d3a878', '#aab6c2'];
  const dashes = [[], [7, 4], [2, 3], [10, 3, 2, 3], [4, 8], [1, 6]];
  const isDark = () => {
    const forced = document.documentElement.dataset.theme;
    return forced ? forced === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  };

  // Zero has no place on a logarithmic axis: it gets a decade of its own below the smallest value.
  const zeroBand = (values) => {
    const positive = values.filter((v) => v > 0);
    return positive.length ? 10 ** (Math.floor(Math.log10(Math.min(...positive))) - 1) : 0.1;
  };
  const short = (v) => {
    const extreme = Math.abs(v) >= 1e4 || (v !== 0 && Math.abs(v) < 1e-3);
    return extreme ? v.toExponential(1).replace('.0e', 'e') : +v.toPrecision(4) + '';
  };

  // The policy that stays closest to the reference gets the first colour.
  const largest = (s) => Math.max(0, ...(s.lossAbs || []).map((v) => v ?? Infinity));
  (data.curves || []).forEach((group) => {
    const closest = (s) => Math.min(...group.series.filter((x) => x.policy === s.policy).map(largest));
    const byMesh = (a, b) => (a.mesh < b.mesh ? -1 : 1);
    const order = (a, b) => b.reference - a.reference || closest(a) - closest(b) || byMesh(a, b);
    group.series.sort(order);
  });
  const hidden = new Set();  // names of curves that the reader switched off

  function style(group, s) {
    const distinct = (key) => [...new Set(group.series.filter((x) => !x.reference).map((x) => x[key]))];
    const meshes = distinct('mesh').sort();
    const palette = isDark() ? dark : light;
    const color = s.reference ? css('--ink') : palette[distinct('policy').indexOf(s.policy) % palette.length];
    return { label: s.name, borderColor: color, backgroundColor: color, pointRadius: 0, pointHoverRadius: 4,
      hidden: hidden.has(group.title + s.name), borderWidth: s.reference ? 3 : 1.8, tension: 0,
      spanGaps: false, order: s.reference ? 1 : 0,
      borderDash: s.reference ? [] : dashes[meshes.indexOf(s.mesh) % dashes.length] };
  }

  // One legend for both charts of a group; each curve can be switched off.
  function legend(list, group) {
    list.replaceChildren(...group.series.map((s) => {
      const look = style(group, s);
      const item = document.createElement('li'), button = document.createElement('button');
      button.type = 'button';
      button.setAttribute('aria-pressed', !look.hidden);
      button.innerHTML =
        '<svg viewBox="0 0 28 10" aria-hidden="true"><line x1="0" x2="28" y1="5" y2="5"/></svg>';
      const stroke = button.querySelector('line').style;
      Object.assign(stroke, { stroke: look.borderColor, strokeWidth: look.borderWidth + 0.6,
        strokeDasharray: look.borderDash.join(' ') });
      button.append(s.name + (s.reference ? ' (reference)' : ''));
      button.addEventListener('click', () => {
        const key = group.title + s.name;
        if (!hidden.delete(key)) hidden.add(key);
        draw();
        list.children[group.series.indexOf(s)].firstChild.focus();
      });
      item.append(button);
      return item;
    }));
  }

  function options(yTitle, extra) {
    const grid = { color: css('--line') }, ticks = { color: css('--quiet') };
    const title = (text) => ({ display: true, text, color: css('--quiet') });
    return { responsive: true, maintainAspectRatio: false, animation: false,
      interaction: { mode: 'index', intersect: false },
      plugins: { legend: { display: false },
        tooltip: { itemSort: (a, b) => b.raw.y - a.raw.y } },
      scales: { x: { type: 'linear', grid, ticks, title: title('step'), min: extra.min, max: extra.max },
        y: { grid, ticks, title: title(yTitle), ...extra.y } } };
  }

  const line = (xs, ys) => (xs || []).map((x, i) => ({ x, y: ys[i] }));

  // The step where a curve leaves its reference, as a ring on the zero band or the curve.
  const firsts = (s, points) => points.map((p) => (p.x === s.first ? 5 : 0));

  function valueChart(canvas, group, quantity, range) {
    const datasets = group.series.map((s) => ({ ...style(group, s), data: line(s.step, s[quantity]) }));
    const name = quantity === 'loss' ? 'loss' : 'gradient norm';
    return new Chart(canvas, { type: 'line', options: options(name, range), data: { datasets } });
  }

  function diffChart(canvas, group, quantity, measure, range) {
    const compared = group.series.filter((s) => s.diffStep);
    const key = quantity + measure;
    const zero = zeroBand(compared.flatMap((s) => s[key]));
    const datasets = compared.map((s) => {
      const points = line(s.diffStep, s[key].map((v) => (v === 0 ? zero : v)));
      return { ...style(group, s), data: points, pointRadius: firsts(s, points), pointBorderWidth: 2,
        pointBackgroundColor: css('--card') };
    });
    const label = (v) => (v <= zero * 1.01 ? 'identical' : short(v));
    const decade = (v) => Number.isInteger(Math.round(Math.log10(v) * 1e6) / 1e6);
    const ticks = { color: css('--quiet'), callback: (v) => (decade(v) ? label(v) : null) };
    const y = { type: 'logarithmic', min: zero / 2, ticks };
    const o = options(measure === 'Ulp' ? 'difference in ulp' : 'absolute difference', { ...range, y });
    o.plugins.tooltip.callbacks = { label: (c) => ` ${c.dataset.label}: ${label(c.raw.y)}` };
    const band = { id: 'band', beforeDatasetsDraw: ({ ctx, chartArea, scales }) => {
      ctx.fillStyle = css('--good-soft');
      const top = scales.y.getPixelForValue(zero * 2.2);
      ctx.fillRect(chartArea.left, top, chartArea.width, chartArea.bottom - top);
    } };
    return new Chart(canvas, { type: 'line', options: o, data: { datasets }, plugins: [band] });
  }

  function draw() {
    charts.splice(0).forEach((chart) => chart.destroy());
    (data.curves || []).forEach((group, i) => {
      const chosen = (name) => document.querySelector(`input[name="${name}${i}"]:checked`).value;
      const steps = group.series.flatMap((s) => s.step);
      const range = { min: Math.min(...steps), max: Math.max(...steps) };
      legend(document.getElementById(`curve-${i}-series`), group);
      const canvas = (part) => document.getElementById(`curve-${i}-${part}`);
      charts.push(valueChart(canvas('value'), group, chosen('quantity'), range));
      charts.push(diffChart(canvas('diff'), group, chosen('quantity'), chosen('measure'), range));
    });
    document.body.dataset.charts = charts.length;
  }

  function copying() {
    all('.copy').forEach((button) => button.addEventListener('click', async () => {
      const text = document.getElementById(button.dataset.copy).textContent;
      try {
        await navigator.clipboard.writeText(text);
      } catch {  // not allowed on a page from disk: the old way
        const area = Object.assign(document.createElement('textarea'), { value: text });
        document.body.append(area);
        area.select();
        document.execCommand('copy');
        area.remove();
      }
      button.textContent = 'Copied';
      setTimeout(() => { button.textContent = 'Copy'; }, 1500);
    }));
  }

  function matrix() {
    const filter = document.getElementById('op-filter');
    if (!filter) return;
    const worst = document.getElementById('op-worst'), says = document.getElementById('cell-says');
    const rows = all('.matrix tbody tr');
    const apply = () => rows.forEach((row) => {
      const named = row.dataset.op.includes(filter.value.trim());
      row.hidden = !named || (worst.checked && row.dataset.worst === '0');
    });
    filter.addEventListener('input', apply);
    worst.addEventListener('change', apply);
    const tell = (event) => { if (event.target.title) says.textContent = event.target.title; };
    document.querySelector('.matrix').addEventListener('mouseover', tell);
    document.querySelector('.matrix').addEventListener('click', tell);  // a finger has no hover
  }

  function navigation() {
    const links = new Map(all('nav a').map((a) => [a.hash.slice(1), a]));
    const watch = new IntersectionObserver((entries) => entries.forEach((e) => {
      if (e.isIntersecting) links.forEach((a, id) => a.classList.toggle('here', id === e.target.id));
    }), { rootMargin: '-20% 0px -70% 0px' });
    all('.panel').forEach((panel) => watch.observe(panel));
  }

  document.getElementById('theme').addEventListener('click', () => {
    document.documentElement.dataset.theme = isDark() ? 'light' : 'dark';
    draw();
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
  all('[data-curve] input').forEach((input) => input.addEventListener('change', draw));
  copying();
  matrix();
  navigation();
  draw();
  document.body.dataset.ready = 1;
})();
