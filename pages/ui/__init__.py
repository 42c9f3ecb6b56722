"""What the pages share: state, forms, jobs, cached data, figures and the token strip."""
